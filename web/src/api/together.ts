/** What rows of a list ask one by one and the server is asked for together: those that are drawn in the same moment. */
import { Problem } from "./problem";

const TOGETHER_MS = 60;
const MOST = 50; // as many as the server takes

interface Waiting<A> {
  take: (answer: A) => void;
  fail: (why: unknown) => void;
}

/** A function that asks about one skill; `send` asks about up to 50, and each answer names its `skill`. */
export function together<A extends { skill: string }>(send: (skills: string[]) => Promise<A[]>): (skill: string) => Promise<A> {
  let waiting = new Map<string, Waiting<A>[]>();

  async function sendAll(): Promise<void> {
    const asked = waiting;
    waiting = new Map();
    const ids = [...asked.keys()];
    for (let begin = 0; begin < ids.length; begin += MOST) {
      const some = ids.slice(begin, begin + MOST);
      try {
        for (const answer of await send(some)) for (const { take } of asked.get(answer.skill) ?? []) take(answer);
      } catch (why) {
        for (const id of some) for (const { fail } of asked.get(id) ?? []) fail(why instanceof Problem ? why : new Problem({ status: 0, code: "unreachable", detail: "" }));
      }
    }
  }

  return (skill) => {
    if (waiting.size === 0) setTimeout(() => void sendAll(), TOGETHER_MS);
    return new Promise((take, fail) => {
      waiting.set(skill, [...(waiting.get(skill) ?? []), { take, fail }]);
    });
  };
}
