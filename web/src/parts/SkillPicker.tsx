/** A field that finds skills by what they do; each that is picked is reported, and the field is empty again. */
import { Autocomplete } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";

import { type Entry, searchQuery } from "@/api/catalog";

import { visible } from "./foreign";

const OFFERED = 12;
const LOOKED_AT = 40; // of which some may not be fitting

interface Props {
  /** Above the field; without one `placeholder` is its name. */
  label?: string;
  description?: ReactNode;
  placeholder: string;
  required?: boolean;
  /** Which skills may be picked. */
  fits: (skill: Entry) => boolean;
  pick: (skill: Entry) => void;
}

export function SkillPicker({ label, description, placeholder, required = false, fits, pick }: Props) {
  const [typed, setTyped] = useState("");
  const [question] = useDebouncedValue(typed.trim(), 150);
  const found = useQuery({ ...searchQuery(question, LOOKED_AT), enabled: question.length > 1 });
  const offered = new Map(
    (question.length > 1 ? (found.data ?? []) : [])
      .filter(({ skill }) => fits(skill))
      .slice(0, OFFERED)
      .map(({ skill }) => [`${visible(skill.name)} · ${visible(skill.description).slice(0, 90)}`, skill]),
  );
  return (
    <Autocomplete
      {...(label ? { label } : { "aria-label": placeholder })}
      description={description}
      placeholder={placeholder}
      withAsterisk={required}
      value={typed}
      onChange={setTyped}
      data={[...offered.keys()]}
      filter={({ options }) => options}
      selectFirstOptionOnChange
      onOptionSubmit={(picked) => {
        const skill = offered.get(picked);
        if (skill) pick(skill);
        setTimeout(() => setTyped("")); // after the label was put into the field
      }}
    />
  );
}
