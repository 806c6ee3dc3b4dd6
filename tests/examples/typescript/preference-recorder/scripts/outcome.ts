export interface MemoryWriteSuggestion {
  ownerType: 'user' | 'household' | 'task' | 'group';
  ownerId: string;
  type: 'preference' | 'fact' | 'event' | 'summary';
  importance: number;
  content: string;
  metadata?: Record<string, unknown>;
}

export interface StepTrace {
  stepId: string;
  stepName: string;
  input: unknown;
  output: unknown;
  duration: number;
  error?: Error;
  timestamp?: number;
}

export interface SkillExecutionOutcome {
  output: unknown;
  format?: 'object' | 'text' | 'binary' | 'void' | 'primitive';
  status?: 'success' | 'error';
  message?: string;
  tokenUsage?: number;
  warnings?: string[];
  memoryWrites?: MemoryWriteSuggestion[];
  intermediateSteps?: StepTrace[];
}
