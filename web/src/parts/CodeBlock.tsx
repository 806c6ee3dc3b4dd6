/** A block of code in a text, with a button that copies it; coloured as soon as what colours it has come. */
import { lazy, type ReactNode, Suspense } from "react";

import { fetched } from "@/api/parts";

import { CopyIcon } from "./CopyIcon";
import classes from "./CodeBlock.module.css";

const Coloured = lazy(() => fetched(import("./Coloured")));

export function CodeBlock({ text, language }: { text: string; language: string | undefined }) {
  const plain: ReactNode = text;
  return (
    <div className={classes.block}>
      <pre tabIndex={0}>
        <code>{language ? <Suspense fallback={plain}><Coloured text={text} language={language} /></Suspense> : plain}</code>
      </pre>
      <div className={classes.copy}>
        <CopyIcon value={text} />
      </div>
    </div>
  );
}
