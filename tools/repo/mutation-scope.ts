import { globSync } from "node:fs";

/** The files of libraries whose result depends on their arguments alone. */
const PURE: Readonly<Record<string, readonly string[]>> = {
  bus: ["delivery", "fill-page", "memory-stream", "messages", "nats-fault", "request-rates", "subject-pattern"],
  kube: ["cache", "credential", "event-correlation", "key-index", "kube-fault", "recent-map"],
  store: ["decide-lock-claim", "decide-lock", "keys", "mailbox", "plan-batch", "confirm-stored"],
};

export type MutatedProject = { name: string; root: string; files: readonly string[] };

/** Lists the projects that are mutated and their files: `domain/` of every app, and the pure files of three libraries. */
export function listMutatedProjects(workspace: string): MutatedProject[] {
  const domains = globSync("apps/*/src/domain/**/*.ts", { cwd: workspace }).filter(
    (file) => !file.endsWith(".test.ts"),
  );
  const apps = Object.entries(Object.groupBy(domains.sort(), (file) => file.split("/").slice(0, 2).join("/")));
  return [
    ...apps.map(([root, files = []]) => ({ name: root.slice("apps/".length), root, files })),
    ...Object.entries(PURE).map(([name, files]) => ({
      name,
      root: `libs/${name}`,
      files: files.map((file) => `libs/${name}/src/${file}.ts`),
    })),
  ];
}
