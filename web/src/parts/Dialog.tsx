/** A window over the page that is closed with its cross, with Escape, or beside it. */
import { Modal, type ModalProps } from "@mantine/core";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";

type Props = Omit<ModalProps, "onClose" | "closeButtonProps"> & { close: () => void };

export function Dialog({ close, ...others }: Props) {
  const t = useText(common);
  return <Modal centered {...others} onClose={close} closeButtonProps={{ "aria-label": t.close }} />;
}
