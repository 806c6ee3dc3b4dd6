/** Names and what they are, one below the other. */
import { Fragment, type ReactNode } from "react";

import classes from "./FactList.module.css";

export type Fact = readonly [name: string, value: ReactNode];

/** Facts without a value are left out; `stacked` puts each value below its name, for narrow places. */
export function FactList({ facts, stacked = false }: { facts: readonly Fact[]; stacked?: boolean }) {
  return (
    <dl className={classes.facts} data-stacked={stacked}>
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
    </dl>
  );
}
