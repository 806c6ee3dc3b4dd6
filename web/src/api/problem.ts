/** Why the server did not do something (problem+json, RFC 9457, with the server's stable codes). */
export interface ProblemShape {
  status: number;
  code: string;
  detail: string;
  hint?: string | undefined;
  [member: string]: unknown;
}

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string | undefined;
  /** What else the problem carries, such as `candidates` or `consent`. */
  readonly members: Readonly<Record<string, unknown>>;

  constructor(shape: ProblemShape) {
    super(shape.detail);
    this.name = "Problem";
    this.status = shape.status;
    this.code = shape.code;
    this.hint = shape.hint;
    this.members = shape;
  }
}

/** The problem that an answer reports; one that is no problem+json (of a proxy, say) by its status. */
export async function problemOf(response: Response): Promise<Problem> {
  const fallback = { status: response.status, code: `http_${response.status}`, detail: response.statusText };
  const found: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  if (typeof found !== "object" || found === null) return new Problem(fallback);
  const { detail, code, hint } = found as Record<string, unknown>;
  return new Problem({
    ...(found as Record<string, unknown>),
    status: response.status,
    code: typeof code === "string" ? code : fallback.code,
    detail: typeof detail === "string" ? detail : fallback.detail,
    hint: typeof hint === "string" ? hint : undefined,
  });
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem({ status: 0, code: "page_failed", detail: error instanceof Error ? error.message : String(error) });
}
