/** How the page is tested: apart from its build, which is installed without vitest. */
import { defineConfig, mergeConfig } from "vitest/config";

import vite from "./vite.config";

export default mergeConfig(vite, defineConfig({ test: { environment: "jsdom", include: ["tests/**/*.test.{ts,tsx}"] } }));
