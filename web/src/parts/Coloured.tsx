/** Code in colours, for the middle of a text. */
import { memo } from "react";

import { lines } from "./highlight";
import colours from "./colours.module.css";

/** What languages are called in texts, where it is not the end of a file's name. */
const ENDINGS: Record<string, string> = { golang: "go", javascript: "js", markdown: "md", perl: "pl", powershell: "ps1", python: "py", ruby: "rb", rust: "rs", shell: "sh", typescript: "ts" };

export default memo(function Coloured({ text, language }: { text: string; language: string }) {
  return lines(text, `code.${ENDINGS[language] ?? language}`).map((row, index) => (
    <span key={index} className={colours.words}>
      {index > 0 && "\n"}
      {row.map((word, at) =>
        word.kind ? (
          <span key={at} className={word.kind}>
            {word.text}
          </span>
        ) : (
          word.text
        ),
      )}
    </span>
  ));
});
