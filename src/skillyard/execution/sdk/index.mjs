// The same module for `import` as for `require`: one run collects in one place.
import sdk from './index.cjs';

export const { SkillFailed, context, fail, remember, step } = sdk;
