/** A file as it can be shown: a picture, a text, or that it cannot be. */
import { useEffect, useMemo, useState } from "react";

import { useText, words } from "@/i18n";

import classes from "./FilePreview.module.css";
import { visible } from "./foreign";
import { Empty } from "./Section";

const preview = words(
  { none: "This file cannot be shown here. Download it." },
  { none: "此文件无法在这里显示，请下载。" },
);
const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
const LONGEST = 200_000;

export function FilePreview({ name, isText, data }: { name: string; isText: boolean; data: Blob }) {
  const t = useText(preview);
  const kind = PICTURES[name.split(".").pop()?.toLowerCase() ?? ""];
  const [text, setText] = useState<string>();
  useEffect(() => {
    if (isText) void data.slice(0, LONGEST).text().then(setText);
  }, [isText, data]);
  const address = useMemo(() => (kind && !isText ? URL.createObjectURL(new Blob([data], { type: kind })) : undefined), [kind, isText, data]);
  useEffect(
    () => () => {
      if (address) URL.revokeObjectURL(address);
    },
    [address],
  );
  if (address) return <img src={address} alt={visible(name)} className={classes.picture} />;
  if (!isText) return <Empty>{t.none}</Empty>;
  return (
    <pre className={classes.text} tabIndex={0} role="region" aria-label={visible(name)}>
      {visible(text ?? "")}
      {data.size > LONGEST && "\n…"}
    </pre>
  );
}
