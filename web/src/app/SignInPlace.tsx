/** Loads the sign-in dialog when the server first wants a key. */
import { lazy, Suspense } from "react";

import { fetched } from "@/api/parts";
import { useWantedKey } from "@/api/session";

const SignIn = lazy(() => fetched(import("./SignIn")));

export function SignInPlace() {
  const wanted = useWantedKey();
  return <Suspense>{wanted && <SignIn />}</Suspense>;
}
