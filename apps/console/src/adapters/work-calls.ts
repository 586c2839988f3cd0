import type { WorkKind } from "../domain/work.ts";
import type { FeedName } from "./feeds.ts";

/** The lists of the gateway by kind of work. */
export const FEED_OF: Readonly<Record<WorkKind, FeedName>> = {
  session: "sessions",
  job: "jobs",
  "replica-set": "replica-sets",
  lease: "leases",
};

/** Builds `/v1/jobs/default/train`, with a further part if given. `type` is the kind of a job, if several have the same name. */
export function workPath(kind: WorkKind, id: string, part = "", type = ""): string {
  const escaped = id.split("/").map(encodeURIComponent).join("/");
  const query = type === "" ? "" : `?kind=${encodeURIComponent(type)}`;
  return `/v1/${FEED_OF[kind]}/${escaped}${part === "" ? "" : `/${part}`}${query}`;
}

/** Returns the path at which the log of one component is read in chunks. */
export function logPath(kind: WorkKind, id: string, component: string, type = ""): string {
  const path = workPath(kind, id, "log", type);
  return `${path}${path.includes("?") ? "&" : "?"}component=${encodeURIComponent(component)}`;
}
