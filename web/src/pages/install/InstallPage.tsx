/** Bring skills in: choose a source, look at what it holds, agree, and watch it being installed. */
import { Stepper } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { beginInstall, inspect, type Inspected, type InstallOrder, type Origin } from "@/api/installing";
import { useText } from "@/i18n";
import { ErrorState } from "@/parts/ErrorState";
import { Page } from "@/parts/Page";

import { Choose } from "./Choose";
import { Progress } from "./Progress";
import { Review } from "./Review";
import { install } from "./words";

interface Looked {
  origin: Origin;
  skills: Inspected[];
}

export function InstallPage() {
  const t = useText(install);
  const looking = useMutation({ mutationFn: async (origin: Origin): Promise<Looked> => ({ origin, skills: await inspect(origin) }) });
  const installing = useMutation({ mutationFn: (order: InstallOrder) => beginInstall(order) });
  const [ended, setEnded] = useState(false);
  const over = useCallback(() => setEnded(true), []);
  const [addressed, setAddressed] = useState("");
  const looked = looking.data;
  const again = () => {
    setEnded(false);
    looking.reset();
    installing.reset();
  };
  const agree = (consent: string) => {
    const order = installing.variables;
    if (!order) return;
    setEnded(false);
    installing.mutate({ ...order, consent: [...new Set([...order.consent, ...consent.split(",")])] });
  };
  return (
    <Page title={t.title} lead={t.lead}>
      <Stepper active={ended ? 3 : installing.data ? 2 : looked ? 1 : 0} size="sm" mb="lg" iconSize={30} allowNextStepsSelect={false} wrap={false} styles={{ separator: { marginInline: 8 } }}>
        <Stepper.Step label={t.steps.choose} />
        <Stepper.Step label={t.steps.look} />
        <Stepper.Step label={t.steps.done} />
      </Stepper>
      {installing.data ? (
        <Progress id={installing.data} again={again} over={over} agree={agree} />
      ) : looked ? (
        <>
          {installing.error && <ErrorState error={installing.error} />}
          <Review
            key={looked.skills.map(({ digest }) => digest).join()}
            skills={looked.skills}
            busy={installing.isPending}
            back={again}
            install={(order) => installing.mutate({ ...order, origin: looked.origin })}
          />
        </>
      ) : (
        <Choose
          busy={looking.isPending}
          error={looking.error}
          address={addressed}
          setAddress={setAddressed}
          look={(origin) => looking.mutate(origin)}
        />
      )}
    </Page>
  );
}
