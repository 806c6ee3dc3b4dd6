// The same module for `import` as for `require`.
import testing from './testing.cjs';

export const { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest, test, vi } = testing;
export default testing;
