import type { ReactNode } from "react";
import { formatAge, formatTime } from "../domain/describe.ts";
import { useNow } from "./use-now.ts";

const NOW_MS = 5000;

/** Shows the time since a moment, and updates itself without a new render of the list around it. */
export function Age({ sinceMs }: { readonly sinceMs: number }): ReactNode {
  const nowMs = useNow(NOW_MS);
  return <time title={formatTime(sinceMs)}>{formatAge(sinceMs, nowMs)}</time>;
}
