// What `skillyard_sdk` offers to a skill in TypeScript; copy it beside your sources when your editor should know it.

export interface Step<Value = unknown> {
  readonly name: string;
  input: unknown;
  output: Value | undefined;
}

export interface Remembering {
  type?: 'preference' | 'fact' | 'event' | 'summary';
  /** From 1 (passing) to 5 (must never be forgotten). */
  importance?: number;
  ownerType?: 'user' | 'household' | 'task' | 'group';
  ownerId?: string;
  metadata?: Record<string, unknown>;
}

/** Raised by `fail`. */
export class SkillFailed extends Error {}

/** Who asks: `userId`, `sessionId` and what else the caller told. */
export const context: Readonly<Record<string, unknown>>;

/** End the run as failed, with one sentence for the one who asked. */
export function fail(message: string): never;

/** Suggest to remember `content`. */
export function remember(content: string, options?: Remembering): void;

/** Trace one step of the work. */
export function step<Value>(name: string, work: (current: Step) => Value, options?: { input?: unknown; id?: string }): Value;
