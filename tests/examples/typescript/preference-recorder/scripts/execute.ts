import type { SkillExecutionOutcome } from './outcome.ts';

interface Preference {
  content: string;
  category: string;
}

export async function execute(
  parameters: Record<string, unknown>,
  context?: { userId?: string },
): Promise<SkillExecutionOutcome> {
  const original = parameters.preference as string;
  const category = (parameters.category as string | undefined) ?? 'general';
  const preference = asPreference(original, category);
  return {
    output: { success: true, message: '偏好记录成功', preference },
    format: 'object',
    status: 'success',
    memoryWrites: [
      {
        ownerType: 'user',
        ownerId: context?.userId || 'anonymous',
        type: 'preference',
        importance: (parameters.importance as number | undefined) || 3,
        content: preference.content,
        metadata: { category, originalPreference: original },
      },
    ],
  };
}

function asPreference(original: string, category: string): Preference {
  const words = original.trim().replace(/^我/u, '');
  return { content: `用户${words}`, category };
}
