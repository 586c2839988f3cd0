/** Something that must never be. */
export type Finding = {
  /** Undefined: it concerns the whole system. */
  readonly work: string | undefined;
  readonly rule: string;
  readonly expected: string;
  readonly found: string;
};
