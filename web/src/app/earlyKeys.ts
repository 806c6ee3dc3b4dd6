/** What is typed between the wish for a field and its focus: it is kept for the field, and goes to nothing else. */
const LONGEST_MS = 10_000;

/** Marks the field that the keys are for: an attribute of it. */
export const TAKES_KEYS = { "data-takes-keys": "" };

let typed = "";
let stop: () => void = () => undefined;

/** Keep what is typed from now on, until `caughtKeys` or Escape. */
export function catchKeys(): void {
  stop();
  typed = "";
  const hear = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.activeElement?.hasAttribute("data-takes-keys") || event.key === "Escape") {
      stop();
      return;
    }
    if (event.key.length === 1) typed += event.key;
    else if (event.key === "Backspace") typed = typed.slice(0, -1);
    else if (event.key !== "Enter") return;
    event.preventDefault();
    event.stopPropagation();
  };
  const late = setTimeout(() => stop(), LONGEST_MS);
  stop = () => {
    clearTimeout(late);
    removeEventListener("keydown", hear, true);
  };
  addEventListener("keydown", hear, true);
}

/** What was typed since, once: the field has the focus now. */
export function caughtKeys(): string {
  stop();
  const caught = typed;
  typed = "";
  return caught;
}
