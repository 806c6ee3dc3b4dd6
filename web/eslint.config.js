import a11y from "eslint-plugin-jsx-a11y";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["node_modules", "src/api/schema.d.ts", "postcss.config.cjs", "eslint.config.js"] },
  ...ts.configs.strictTypeChecked,
  ...ts.configs.stylisticTypeChecked,
  a11y.flatConfigs.recommended,
  hooks.configs.flat["recommended-latest"],
  {
    languageOptions: { parserOptions: { projectService: true } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      // HTML of a skill is never put into the page: everything is text or an element we chose.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Show it as text." },
      ],
      // One way to ask the server: src/api.
      "no-restricted-globals": ["error", { name: "fetch", message: "Use the client in src/api." }, { name: "XMLHttpRequest", message: "Use src/api." }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/only-throw-error": "off", // the router navigates by throwing
      "@typescript-eslint/consistent-type-definitions": "off",
      "react-hooks/incompatible-library": "off", // no compiler memoizes here
      // What scrolls must be reachable by keyboard.
      "jsx-a11y/no-noninteractive-tabindex": "off",
    },
  },
  { files: ["src/api/**"], rules: { "no-restricted-globals": "off" } },
);
