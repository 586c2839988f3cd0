const FOLDER = "../../../../examples";

const files = import.meta.glob<string>("../../../../examples/{http-benchmark,training-job,pinned-replica-set}.yaml", {
  query: "?raw",
  import: "default",
});

/** Examples of the repository by kind, each loaded when the user chooses it. */
export const EXAMPLES: Readonly<Record<string, () => Promise<string>>> = {
  session: example("http-benchmark"),
  job: example("training-job"),
  "replica set": example("pinned-replica-set"),
};

function example(name: string): () => Promise<string> {
  const load = files[`${FOLDER}/${name}.yaml`];
  if (load === undefined) throw new Error(`the repository has no example ${name}`);
  return load;
}
