import type { MemoryWriteSuggestion, SkillExecutionOutcome, StepTrace } from './outcome.ts';

type Profile = Record<string, string>;

const VITAL = new Set(['name', 'email']);

export async function execute(
  parameters: Record<string, unknown>,
  context?: { userId?: string },
): Promise<SkillExecutionOutcome> {
  const userId = context?.userId || 'anonymous';
  const steps: StepTrace[] = [];
  const updates = parameters.updates as Record<string, unknown>;

  let began = Date.now();
  const validated = valid(updates);
  steps.push({ stepId: 'validate', stepName: '验证更新', input: updates, output: validated, duration: Date.now() - began });

  began = Date.now();
  const updated = await apply(userId, (parameters.profile as Profile | undefined) ?? {}, validated);
  steps.push({ stepId: 'apply', stepName: '应用更新', input: validated, output: updated, duration: Date.now() - began });

  const memoryWrites = Object.entries(validated).map(
    ([field, value]): MemoryWriteSuggestion => ({
      ownerType: 'user',
      ownerId: userId,
      type: 'fact',
      importance: VITAL.has(field) ? 5 : 3,
      content: `用户${field}更新为${value}`,
      metadata: { field, oldValue: updated.oldValues[field], newValue: value },
    }),
  );
  return { output: updated, format: 'object', status: 'success', memoryWrites, intermediateSteps: steps };
}

/** The updates that are text and not empty. */
function valid(updates: Record<string, unknown>): Profile {
  const texts = Object.entries(updates).filter((pair): pair is [string, string] => typeof pair[1] === 'string' && pair[1] !== '');
  if (texts.length === 0) throw new TypeError('没有可用的更新');
  return Object.fromEntries(texts);
}

async function apply(userId: string, profile: Profile, changes: Profile) {
  const oldValues = Object.fromEntries(Object.keys(changes).map((field) => [field, profile[field] ?? null]));
  return { userId, profile: { ...profile, ...changes }, oldValues };
}
