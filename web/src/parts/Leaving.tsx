/** Asks before what was written and not saved is left: by a link, by going back, by closing the window. */
import { useBlocker } from "@tanstack/react-router";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";

import { Confirm } from "./Confirm";

interface Props {
  /** What is written differs from what is saved. */
  unsaved: boolean;
  /** Whether it was saved or given up in this very moment, so that leaving loses nothing. */
  settled?: () => boolean;
}

export function Leaving({ unsaved, settled = () => false }: Props) {
  const leaving = useBlocker({ shouldBlockFn: () => unsaved && !settled(), enableBeforeUnload: unsaved, withResolver: true });
  return <AskToLeave opened={leaving.status === "blocked"} stay={() => leaving.reset?.()} leave={() => leaving.proceed?.()} />;
}

export function AskToLeave({ opened, stay, leave }: { opened: boolean; stay: () => void; leave: () => void }) {
  const t = useText(common);
  return (
    <Confirm opened={opened} close={stay} title={t.leave} action={t.leaveAct} danger act={leave}>
      {t.leaveWhy}
    </Confirm>
  );
}
