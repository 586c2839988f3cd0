/** The expectations of the processes of one job, and how they end. JSON, so that it travels with their command. */
export type Play = {
  /** For the records of the processes; files `end` and `last` in it let them end, and in `wrong` they say what they did not expect. */
  readonly folder: string;
  /** By the name of the pod. */
  readonly parts: Readonly<Record<string, Part>>;
};

export type Part = {
  /** null: the variable is not there. */
  readonly env: Readonly<Record<string, string | null>>;
  /** Contents by their path below HOME. */
  readonly files: Readonly<Record<string, string>>;
  /** The output of commands. */
  readonly output: readonly { readonly command: readonly string[]; readonly text: string }[];
  /** Exit codes of one run after the other, all but the last at once. Without any the process runs until it is ended. */
  readonly ends: readonly number[];
  /** It decides about the job, and so ends after the others. */
  readonly isLast: boolean;
};
