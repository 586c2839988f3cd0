/**
 * Waits until the condition holds (no exception, not false, not undefined) and returns its value; fails with `what` and the last error after timeoutMs
 * (default 60000).
 */
export async function until<Value>(
  what: string,
  condition: () => Value | Promise<Value>,
  options: { readonly timeoutMs?: number; readonly everyMs?: number } = {},
): Promise<Exclude<Value, false | undefined>> {
  const { timeoutMs = 60_000, everyMs = 20 } = options;
  const end = performance.now() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await condition();
      if (value !== false && value !== undefined) return value as Exclude<Value, false | undefined>;
      last = value;
    } catch (error) {
      last = error;
    }
    if (performance.now() >= end)
      throw new Error(`gave up after ${timeoutMs} ms waiting until ${what}`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
