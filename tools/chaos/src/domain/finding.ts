export type Finding = {
  /** Undefined where the rule concerns the whole system. */
  readonly work: string | undefined;
  readonly rule: string;
  readonly expected: string;
  readonly found: string;
};
