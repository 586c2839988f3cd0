import jobSchema from "../../../../schemas/job.schema.json" with { type: "json" };
import setSchema from "../../../../schemas/pinned-replica-set.schema.json" with { type: "json" };
import sessionSchema from "../../../../schemas/session.schema.json" with { type: "json" };

/** The schemas of documents by their kinds. Other kinds are checked by the services alone. */
export const SCHEMAS: Readonly<Record<string, object>> = {
  Session: sessionSchema,
  Job: jobSchema,
  PinnedReplicaSet: setSchema,
};
