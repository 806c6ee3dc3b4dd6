/** Colours, type and spacing, in one place. */
import { type CSSVariablesResolver, createTheme } from "@mantine/core";

export const theme = createTheme({
  primaryColor: "pine",
  primaryShade: 7,
  autoContrast: true,
  luminanceThreshold: 0.36,
  defaultRadius: "md",
  cursorType: "pointer",
  fontFamily:
    'Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC", sans-serif',
  fontFamilyMonospace:
    'ui-monospace, "SF Mono", "Cascadia Code", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace',
  headings: { fontWeight: "620", sizes: { h1: { fontSize: "1.5rem" }, h2: { fontSize: "1.125rem" }, h3: { fontSize: "1rem" } } },
  colors: {
    pine: ["#ecfdf8", "#d3f6ec", "#a8eada", "#74d8c3", "#45c0aa", "#26a692", "#169080", "#0f766e", "#0d5f59", "#0b4b47"],
    dark: ["#d5dadf", "#b4bcc4", "#939da7", "#69747f", "#434c56", "#363e47", "#262d35", "#1c2229", "#151a20", "#0f1318"],
    gray: ["#f8f9fa", "#f1f3f5", "#e6e9ec", "#d8dde2", "#c3cad1", "#a1abb5", "#78838e", "#5a646e", "#3a424a", "#20262c"],
  },
  components: {
    ActionIcon: { defaultProps: { variant: "subtle", color: "gray" } },
    Badge: { defaultProps: { variant: "light", radius: "sm" }, styles: { label: { textTransform: "none", fontWeight: 560 } } },
    Button: { styles: { label: { fontWeight: 560 } } },
    Paper: { defaultProps: { withBorder: true, radius: "md" } },
    Skeleton: { defaultProps: { radius: "sm" } },
    Table: { defaultProps: { verticalSpacing: 8, horizontalSpacing: "sm" } },
    Tabs: { defaultProps: { keepMounted: false } },
    Tooltip: { defaultProps: { withArrow: true, openDelay: 250, multiline: true, maw: 360, events: { hover: true, focus: true, touch: true } } },
  },
});

/** Quiet text stays readable: at least 4.5 to 1 on every ground it is used on. */
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "var(--mantine-color-gray-7)",
    "--mantine-color-placeholder": "var(--mantine-color-gray-7)",
    "--mantine-color-body": "#ffffff",
    "--mantine-color-yellow-light-color": "#7a4b00",
    "--mantine-color-orange-light-color": "#8a3a00",
    "--mantine-color-red-light-color": "#a61e1e",
    "--mantine-color-green-light-color": "#1f6b30",
    "--yard-ground": "var(--mantine-color-gray-0)",
    "--yard-line": "var(--mantine-color-gray-2)",
    "--yard-soft": "var(--mantine-color-gray-1)",
    "--yard-code": "#f6f8f9",
  },
  dark: {
    "--mantine-color-dimmed": "var(--mantine-color-dark-2)",
    "--mantine-color-placeholder": "var(--mantine-color-dark-2)",
    "--mantine-color-body": "var(--mantine-color-dark-7)",
    "--mantine-color-pine-light": "rgba(38, 166, 146, 0.16)",
    "--mantine-color-pine-light-hover": "rgba(38, 166, 146, 0.22)",
    "--mantine-color-pine-light-color": "var(--mantine-color-pine-2)",
    "--mantine-color-orange-light": "rgba(253, 126, 20, 0.16)",
    "--mantine-color-orange-light-color": "var(--mantine-color-orange-2)",
    "--mantine-color-red-light": "rgba(250, 82, 82, 0.17)",
    "--mantine-color-red-light-color": "var(--mantine-color-red-2)",
    "--mantine-color-yellow-light": "rgba(250, 176, 5, 0.15)",
    "--mantine-color-yellow-light-color": "var(--mantine-color-yellow-2)",
    "--mantine-color-blue-light": "rgba(51, 154, 240, 0.18)",
    "--mantine-color-blue-light-color": "var(--mantine-color-blue-2)",
    "--mantine-color-green-light": "rgba(64, 192, 87, 0.16)",
    "--mantine-color-green-light-color": "var(--mantine-color-green-2)",
    "--mantine-color-gray-light": "var(--mantine-color-dark-5)",
    "--mantine-color-gray-light-hover": "var(--mantine-color-dark-4)",
    "--mantine-color-gray-light-color": "var(--mantine-color-dark-0)",
    "--yard-ground": "var(--mantine-color-dark-8)",
    "--yard-line": "var(--mantine-color-dark-5)",
    "--yard-soft": "var(--mantine-color-dark-6)",
    "--yard-code": "var(--mantine-color-dark-8)",
  },
});
