/** One sentence of the server about what a skill may do, as people of this language say it. */
import { usePowerWords } from "@/i18n/chinese";

import { visible } from "./foreign";

export function PowerSentence({ children }: { children: string }) {
  const said = usePowerWords();
  return <bdi>{visible(said(children))}</bdi>;
}
