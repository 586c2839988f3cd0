/** The expectations of the processes of one job, and how they end. JSON, so that it travels with their command. */
export type Play = {
  /** The folder of the processes' records. The files `end` and `last` in it let them end, and they write mismatches to `wrong`. */
  readonly folder: string;
  /** The parts by the name of the pod. */
  readonly parts: Readonly<Record<string, Part>>;
};

export type Part = {
  /** null means that the variable must be missing. */
  readonly env: Readonly<Record<string, string | null>>;
  /** File contents by their path below HOME. */
  readonly files: Readonly<Record<string, string>>;
  /** The output of commands. */
  readonly output: readonly { readonly command: readonly string[]; readonly text: string }[];
  /** The exit codes of consecutive runs, all but the last immediately. Without codes the process runs until it is ended. */
  readonly ends: readonly number[];
  /** True if the process decides about the job, and so ends after the others. */
  readonly isLast: boolean;
};
