import type { ReactNode } from "react";
import { formatAge, formatTime } from "../domain/describe.ts";
import { useNow } from "./use-now.ts";

const NOW_MS = 5000;

/** The time since a moment, which grows by itself: the list around it is not built again for that. */
export function Age({ sinceMs }: { readonly sinceMs: number }): ReactNode {
  const nowMs = useNow(NOW_MS);
  return <time title={formatTime(sinceMs)}>{formatAge(sinceMs, nowMs)}</time>;
}
