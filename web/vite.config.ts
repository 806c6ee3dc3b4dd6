/** How the page is built: into the Python package, in parts that load when a page needs them. */
import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** Where `npm run dev` finds a server: start one with `skillyard serve`. */
const server = process.env.SKILLYARD_SERVER ?? "http://127.0.0.1:8787";

/** The name of a part without those of all pages that share it. */
const short = (name: string) => name.replace(/~.*?(?=\.css$|$)/, "").replace(/\.css$/, "");

const FIRST =
  /[\\/]web[\\/]src[\\/](i18n[\\/]|api[\\/](cache|client|insights|keys|parts|problem|runStates|runs|schedules|session)\.|parts[\\/](Bars|ErrorState|Loaded|Page|Section|WithCode|figures|foreign|hidden|links|notify)\.)|@mantine[\\/]core[\\/]esm[\\/](core|components[\\/](ActionIcon|AppShell|Badge|Box|Burger|Button|Group|Kbd|Loader|NavLink|Paper|Skeleton|Stack|Text|ThemeIcon|Title|Tooltip|Transition|UnstyledButton|VisuallyHidden))[\\/]|@floating-ui[\\/]|@mantine[\\/]hooks[\\/]/;

/** Style sheets are asked for at once and hold up no drawing: the frame of index.html is there first, and main.tsx puts them on. */
const stylesLater: Plugin = {
  name: "styles-later",
  enforce: "post",
  transformIndexHtml: {
    order: "post",
    handler: (html) => html.replaceAll('<link rel="stylesheet"', '<link rel="preload" as="style"'),
  },
};

export default defineConfig({
  plugins: [react(), stylesLater],
  html: { cspNonce: "__NONCE__" }, // the server writes a new one into each document: styles that are made while the page runs carry it
  resolve: { alias: { "@": here("./src") } },
  build: {
    outDir: here("../src/skillyard/server/static"),
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // no data: addresses, so that the page's policy need not allow them for scripts and fonts
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        chunkFileNames: ({ name }) => `assets/${short(name)}-[hash].js`,
        assetFileNames: ({ names: [name = ""] }) => `assets/${short(name)}-[hash][extname]`,
        codeSplitting: {
          minSize: 12_000,
          groups: [
            // What every page needs changes seldom, and is smaller in one piece.
            { name: "frame", test: /node_modules[\\/](react|react-dom|scheduler|@tanstack[\\/](history|react-router|router-core|store|react-store|query-core|react-query)|clsx|openapi-fetch|get-nonce)[\\/]/, priority: 3 },
            // What the first page draws itself with: one request instead of thirty.
            { name: "first", test: FIRST, priority: 2 },
            // What four pages or more share, in pieces by which pages these are: a third fewer requests, and nothing more for the first page.
            {
              name: "shared",
              test: /[\\/]web[\\/]src[\\/]parts[\\/]|node_modules/,
              minShareCount: 4,
              maxModuleSize: 20_000,
              minSize: 0,
              entriesAware: true,
              entriesAwareMergeThreshold: 4_000,
              priority: 1,
            },
          ],
        },
      },
    },
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/openapi.json", "/healthz", "/readyz", "/.well-known"].map((path) => [
        path,
        // The server answers only its own page: the requests of this one are passed on as if they came from it.
        { target: server, changeOrigin: true, headers: { origin: server } },
      ]),
    ),
  },
});
