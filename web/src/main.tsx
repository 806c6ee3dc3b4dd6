/** Starts the page. */
import "@mantine/core/styles.css";
import "./app/base.css";

import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { cache } from "@/api/cache";
import { router } from "@/app/routes";
import { theme, variables } from "@/app/theme";
import { NoticePlace } from "@/parts/notify";

const place = document.getElementById("root");
if (!place) throw new Error("index.html has no place for the page");

// The policy of the server lets only those styles act that carry the number of this document.
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
setNonce(nonce);

const root = createRoot(place);

// In the places they have in the head: styles of later parts stand behind them, and win.
const styled = [...document.querySelectorAll<HTMLLinkElement>('link[rel="preload"][as="style"]')].map(
  (sheet) =>
    new Promise((done) => {
      sheet.addEventListener("load", done);
      sheet.addEventListener("error", done);
      sheet.rel = "stylesheet";
    }),
);

void Promise.all(styled).then(() =>
  root.render(
    <StrictMode>
      <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <QueryClientProvider client={cache}>
          <NoticePlace />
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  ),
);
