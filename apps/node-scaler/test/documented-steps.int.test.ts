import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { CONTROL_PLANES } from "./control-plane.ts";
import { NODE_CLASS } from "./node-class.ts";

const execute = promisify(execFile);
const ROOT = join(import.meta.dirname, "../../..");
const KUBECTL = find("kubectl");
const HELM = find("helm");
const missing = KUBECTL === undefined ? "kubectl" : HELM === undefined ? "helm" : undefined;
if (missing !== undefined && process.env["CI"] === "true")
  throw new Error(`CI=true allows no skipped suite: ${missing}`);
const [plane] = CONTROL_PLANES;

function find(program: string): string | undefined {
  return [process.env["KUBEBUILDER_ASSETS"] ?? "", ...(process.env["PATH"] ?? "").split(":")]
    .map((directory) => join(directory, program))
    .find((file) => existsSync(file));
}

/** Returns blocks of a page in this language, at any depth, without their indentation. */
function blocksOf(page: string, language: string): string[] {
  const found = page.matchAll(new RegExp(`^( *)\`\`\`${language}\\n([^]*?)^ *\`\`\`$`, "gm"));
  return [...found].map(([, indent = "", text = ""]) => text.replaceAll(new RegExp(`^${indent}`, "gm"), ""));
}

const PAGES = [
  {
    kind: "karpenter",
    definitions: ["karpenter/karpenter.sh_nodeclaims.yaml"],
    file: "node-class.yaml",
    shown: "EC2NodeClass",
  },
  {
    kind: "cluster-api",
    definitions: ["cluster-api/cluster.x-k8s.io_machinedeployments.yaml", "cluster-api/cluster.x-k8s.io_machines.yaml"],
    file: "machines.yaml",
    shown: "MachineDeployment",
  },
];

const title = `the steps of a provider's page${missing === undefined ? "" : ` (skipped: ${missing} is not on the PATH)`}`;
describe.skipIf(missing !== undefined || plane === undefined || plane.skip)(title, () => {
  it.each(PAGES)(
    "can be taken one by one for $kind",
    { timeout: 300_000 },
    async ({ kind, definitions, file, shown }) => {
      await using stack = new AsyncDisposableStack();
      const directory = await mkdtemp(join(tmpdir(), "muster-steps-"));
      stack.defer(() => rm(directory, { recursive: true, force: true }));
      const world = stack.use(await (plane ?? expect.fail()).start(definitions));
      const page = await readFile(join(ROOT, `apps/node-scaler/src/providers/${kind}/README.md`), "utf8");
      const [pools = ""] = blocksOf(page, "yaml").filter((block) => /^pools:/m.test(block));
      const [object = ""] = blocksOf(page, "yaml").filter((block) => block.includes(`kind: ${shown}\n`));
      await writeFile(join(directory, file), object);
      await symlink(join(ROOT, "deploy"), join(directory, "deploy"));
      const nodeScaler = { providers: [kind], pools: parse(pools) as object };
      const values = { services: { "node-scaler": { enabled: true } }, nodeScaler };
      await writeFile(join(directory, "pools-values.yaml"), JSON.stringify(values));
      const kubectl = async (words: readonly string[]): Promise<string> => {
        const env = { PATH: process.env["PATH"], KUBECONFIG: world.kubeconfig, HOME: directory };
        return (await execute(KUBECTL ?? "", words, { cwd: directory, env })).stdout;
      };

      await kubectl(["create", "namespace", "machines"]);
      await kubectl(["create", "namespace", "muster-system"]);
      if (kind === "karpenter") await playNodeClass(kubectl, directory, object);
      const commands = blocksOf(page, "sh").flatMap((block) => block.trim().split("\n"));
      expect(commands.length).toBeGreaterThan(6);
      for (const command of commands) {
        const [program, ...words] = command.split(" ");
        if (program === "helm") {
          await writeFile(join(directory, "rendered.yaml"), await rendered(directory, words));
          await kubectl(["apply", "--server-side", "-f", "rendered.yaml"]);
          continue;
        }
        expect(program).toBe("kubectl");
        const out = await kubectl(words);
        if (words.includes("can-i")) expect(out.trim()).toBe("yes");
      }
    },
  );
});

/** The values of the release that the steps upgrade, without keys. */
const VALUES = "image.repository=registry.example.com/muster,keys.create=false";

/** Renders the objects that `helm upgrade` would apply: no pod runs here, so its hook could not end. */
async function rendered(directory: string, [, ...words]: readonly string[]): Promise<string> {
  const args = words.filter((word) => word !== "--reuse-values" && word !== "--wait");
  const options = { cwd: directory, maxBuffer: 64 * 1024 * 1024 };
  return (await execute(HELM ?? "", ["template", ...args, "--set", VALUES], options)).stdout;
}

/** Creates the definition of a node class, and the page's node class with Karpenter's ready condition. */
async function playNodeClass(
  kubectl: (words: readonly string[]) => Promise<string>,
  directory: string,
  object: string,
): Promise<void> {
  await writeFile(join(directory, "definition.json"), JSON.stringify(NODE_CLASS));
  await kubectl(["apply", "-f", "definition.json"]);
  await kubectl(["wait", "--for=condition=Established", `crd/${NODE_CLASS.metadata.name}`, "--timeout=60s"]);
  const status = { conditions: [{ type: "Ready", status: "True" }] };
  await writeFile(join(directory, "ready.json"), JSON.stringify({ ...(parse(object) as object), status }));
  await kubectl(["create", "-f", "ready.json"]);
}
