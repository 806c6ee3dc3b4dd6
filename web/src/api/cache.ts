/** What was asked is kept for a while; what the server refused is not asked again by itself. */
import { QueryClient } from "@tanstack/react-query";

import { Problem } from "./problem";

export const cache = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: true,
      networkMode: "always", // a server on this machine is there without a network
      retry: (failures, error) => error instanceof Problem && (error.status === 0 || error.status >= 502) && failures < 8,
      retryDelay: (failures) => Math.min(500 * 2 ** failures, 5_000),
    },
    mutations: { networkMode: "always", retry: false },
  },
});
