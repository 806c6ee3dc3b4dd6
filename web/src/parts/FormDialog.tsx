/** A window with a form: closed by its cross, with Escape, or beside it, it asks whether what was written shall be lost. */
import type { ModalProps } from "@mantine/core";
import { type ReactNode, useState } from "react";

import { Dialog } from "./Dialog";
import { AskToLeave, Leaving } from "./Leaving";

interface Props extends Omit<ModalProps, "onClose" | "closeButtonProps"> {
  close: () => void;
  unsaved: boolean;
  /** Whether it was saved in this very moment. */
  settled?: () => boolean;
  children: ReactNode;
}

/** The question comes after the press of Escape that asks for it: the same press would answer it. */
export function FormDialog({ close, unsaved, settled, children, ...others }: Props) {
  const [asked, setAsked] = useState(false);
  return (
    <>
      <Dialog {...others} closeOnEscape={!asked} close={() => (unsaved ? setTimeout(() => setAsked(true)) : close())}>
        {children}
      </Dialog>
      <Leaving unsaved={others.opened && unsaved} {...(settled ? { settled } : {})} />
      <AskToLeave
        opened={asked}
        stay={() => setAsked(false)}
        leave={() => {
          setAsked(false);
          close();
        }}
      />
    </>
  );
}
