/** A place into which files are dropped, or pasted. */
import { Text } from "@mantine/core";
import { IconPaperclip } from "@tabler/icons-react";
import { type ClipboardEvent, type DragEvent, type ReactNode, useRef, useState } from "react";

import { useText, words } from "@/i18n";

import classes from "./Dropping.module.css";
import { notify } from "./notify";

const dropping = words(
  { here: "Drop the files to add them", noFolders: "Folders cannot be added. Drop their files." },
  { here: "松开鼠标以添加文件", noFolders: "不能添加文件夹，请拖入其中的文件。" },
);

interface Props {
  take: (files: readonly File[]) => void;
  disabled: boolean;
  className: string;
  children: ReactNode;
}

export function Dropping({ take, disabled, className, children }: Props) {
  const t = useText(dropping);
  const [over, setOver] = useState(false);
  const depth = useRef(0); // children fire enter and leave events too
  const holds = ({ dataTransfer }: DragEvent) => !disabled && dataTransfer.types.includes("Files");
  const drop = (event: DragEvent) => {
    depth.current = 0;
    setOver(false);
    if (!holds(event)) return;
    event.preventDefault();
    const folders = [...event.dataTransfer.items].some((item) => item.webkitGetAsEntry()?.isDirectory);
    if (folders) notify({ color: "red", message: t.noFolders });
    else take([...event.dataTransfer.files]);
  };
  const paste = (event: ClipboardEvent) => {
    const files = [...event.clipboardData.files];
    if (disabled || !files.length) return;
    event.preventDefault();
    const stamp = new Date().toISOString().slice(0, 19).replace(/\D/g, "");
    take(files.map((file) => (file.name === "image.png" ? new File([file], `pasted-${stamp}.png`, { type: file.type }) : file)));
  };
  return (
    <div
      className={className}
      onDragEnter={(event) => {
        if (!holds(event)) return;
        depth.current += 1;
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (holds(event) && (depth.current -= 1) <= 0) setOver(false);
      }}
      onDragOver={(event) => holds(event) && event.preventDefault()}
      onDrop={drop}
      onPaste={paste}
    >
      {children}
      {over && (
        <div className={classes.over}>
          <IconPaperclip size={28} stroke={1.5} aria-hidden />
          <Text fw={560}>{t.here}</Text>
        </div>
      )}
    </div>
  );
}
