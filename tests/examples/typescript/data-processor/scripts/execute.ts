import type { SkillExecutionOutcome, StepTrace } from './outcome.ts';

interface Analysis {
  count: number;
  sum: number;
  mean: number | null;
}

export async function execute(parameters: Record<string, unknown>): Promise<SkillExecutionOutcome> {
  const steps: StepTrace[] = [];
  const data = parameters.data as unknown[];

  const validated = traced(steps, 'validate', '数据验证', { count: data.length }, () => data.filter(isNumber), (rows) => ({
    valid: rows.length === data.length,
    count: rows.length,
  }));
  const cleaned = traced(steps, 'clean', '数据清洗', { count: validated.length }, () => [...new Set(validated)], (rows) => ({
    count: rows.length,
    removed: validated.length - rows.length,
  }));
  const analyzed = traced(steps, 'analyze', '数据分析', { count: cleaned.length }, () => analyze(cleaned), (result) => result);

  return { output: analyzed, format: 'object', status: 'success', intermediateSteps: steps };
}

function traced<Value>(
  steps: StepTrace[],
  stepId: string,
  stepName: string,
  input: unknown,
  work: () => Value,
  shown: (value: Value) => unknown,
): Value {
  const began = performance.now();
  const value = work();
  steps.push({ stepId, stepName, input, output: shown(value), duration: performance.now() - began, timestamp: Date.now() });
  return value;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function analyze(rows: number[]): Analysis {
  const sum = rows.reduce((total, row) => total + row, 0);
  return { count: rows.length, sum, mean: rows.length > 0 ? sum / rows.length : null };
}
