/** The default of an exhaustive switch: does not compile while a case is missing, and is a defect if it ever runs. */
export function assertNever(value: never): never {
  throw new Error(`unreachable case: ${JSON.stringify(value)}`);
}
