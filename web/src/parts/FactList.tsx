/** Names and what they are, one below the other. */
import { Fragment, type ReactNode } from "react";

import classes from "./FactList.module.css";

export type Fact = readonly [name: string, value: ReactNode];

/** Facts without a value are left out. */
export function FactList({ facts }: { facts: readonly Fact[] }) {
  return (
    <dl className={classes.facts}>
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
    </dl>
  );
}
