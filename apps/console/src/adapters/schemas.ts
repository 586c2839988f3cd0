const FOLDER = "../../../../schemas";

const files = import.meta.glob<object>("../../../../schemas/{session,job,pinned-replica-set}.schema.json", {
  eager: true,
  import: "default",
});

/** The schemas of documents by kind. Documents of other kinds are checked only by the services. */
export const SCHEMAS: Readonly<Record<string, object>> = {
  Session: schemaIn("session"),
  Job: schemaIn("job"),
  PinnedReplicaSet: schemaIn("pinned-replica-set"),
};

function schemaIn(name: string): object {
  const schema = files[`${FOLDER}/${name}.schema.json`];
  if (schema === undefined) throw new Error(`the repository has no schema of ${name}`);
  return schema;
}
