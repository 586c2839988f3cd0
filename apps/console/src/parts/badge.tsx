import type { ReactNode } from "react";
import type { Stage } from "../domain/work.ts";

/** Marks that show the stage in addition to the colour, for users who cannot distinguish colours. */
const MARKS: Readonly<Record<Stage, string>> = {
  waiting: "◔",
  starting: "◑",
  running: "●",
  ending: "◍",
  succeeded: "✓",
  failed: "✕",
  cancelled: "–",
};

export function Badge({ stage, children }: { readonly stage: Stage; readonly children: ReactNode }): ReactNode {
  return (
    <span className={`badge ${stage}`}>
      <span aria-hidden="true">{MARKS[stage]}</span> {children}
    </span>
  );
}
