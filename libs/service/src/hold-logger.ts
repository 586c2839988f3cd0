import { logLevelOf } from "@muster/faults";
import type { Logger } from "./logger.ts";

/** Logs the states of a lead or of a session, as their `onChange`. A loss is logged with its cause: as a warning, or as an error when the cause is a defect. */
export function holdLogger(
  logger: Pick<Logger, "info" | "warn" | "error">,
  message: string,
): (state: string, cause?: unknown) => void {
  return (state, cause) => {
    if (cause === undefined) logger.info({ state }, message);
    else logger[logLevelOf(cause)]({ state, err: cause }, message);
  };
}
