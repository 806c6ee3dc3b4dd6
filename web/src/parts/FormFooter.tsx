/** The end of a form: why it was not taken, the way out, and the button that sends it. */
import { Button, Group } from "@mantine/core";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";

import { ErrorState } from "./ErrorState";

interface Props {
  cancel: () => void;
  /** The word on the button that sends it. */
  submit: string;
  busy: boolean;
  /** Something is missing that it needs. */
  disabled?: boolean;
  error: unknown;
}

export function FormFooter({ cancel, submit, busy, disabled = false, error }: Props) {
  const t = useText(common);
  return (
    <>
      {error !== null && error !== undefined && <ErrorState error={error} />}
      <Group justify="flex-end" gap="sm">
        <Button variant="default" onClick={cancel}>
          {t.cancel}
        </Button>
        <Button type="submit" loading={busy} disabled={disabled}>
          {submit}
        </Button>
      </Group>
    </>
  );
}
