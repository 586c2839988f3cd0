/**
 * Generates generated/messages.{js,d.ts} (protobufjs static module) and generated/services.ts (one typed descriptor a service) from proto/.
 * Run by `nx run proto:generate`; nothing of it is committed.
 */
import { execFileSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";

const here = dirname(fileURLToPath(import.meta.url));
const protoRoot = join(here, "../../proto");
const out = join(here, "generated");
const files = globSync("muster/**/*.proto", { cwd: protoRoot }).sort();
const cli = dirname(createRequire(import.meta.url).resolve("protobufjs-cli/package.json"));

mkdirSync(out, { recursive: true });
generateMessages();
writeFileSync(join(out, "services.ts"), renderServices(loadServices()));

function generateMessages(): void {
  const js = join(out, "messages.js");
  const options = [
    "-t",
    "static-module",
    "-w",
    "es6",
    "--es6",
    "--force-number",
    "--no-service",
    "--no-delimited",
    "--no-verify",
  ];
  execFileSync(process.execPath, [
    join(cli, "bin/pbjs"),
    ...options,
    "-p",
    protoRoot,
    "-o",
    js,
    ...files.map((file) => join(protoRoot, file)),
  ]);
  writeFileSync(js, readFileSync(js, "utf8").replace(/"protobufjs\/minimal(\.js)?"/, '"../src/protobuf-runtime.ts"'));
  execFileSync(process.execPath, [join(cli, "bin/pbts"), "-o", join(out, "messages.d.ts"), js]);
}

function loadServices(): protobuf.Service[] {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => (target.startsWith("/") ? target : join(protoRoot, target));
  root.loadSync(files).resolveAll();
  const services: protobuf.Service[] = [];
  const visit = (namespace: protobuf.NamespaceBase): void => {
    for (const nested of namespace.nestedArray) {
      if (nested instanceof protobuf.Service) services.push(nested);
      else if (nested instanceof protobuf.Namespace) visit(nested);
    }
  };
  visit(root);
  return services;
}

function renderServices(services: readonly protobuf.Service[]): string {
  const head = [
    "// Generated from proto/ by generate.ts.",
    'import type { ServiceDescriptor } from "../src/descriptor.ts";',
    'import { muster } from "./messages.js";',
    "",
  ];
  const all = `export const services = [${services.map(({ name }) => name).join(", ")}] as const satisfies ServiceDescriptor[];`;
  return [...head, ...services.map(renderService), "/** All of them. */", all, ""].join("\n");
}

function renderService(service: protobuf.Service): string {
  const fullName = service.fullName.slice(1);
  // muster.<area>.v1.<Name>
  const area = fullName.split(".")[1];
  const methods = service.methodsArray.map((method) => {
    const request = method.resolvedRequestType?.fullName.slice(1);
    const reply = method.resolvedResponseType?.fullName.slice(1);
    const key = method.name.charAt(0).toLowerCase() + method.name.slice(1);
    const verb = method.name.replaceAll(/(?<!^)[A-Z]/g, (letter) => `-${letter}`).toLowerCase();
    return `    ${key}: { name: "${method.name}", verb: "${verb}", isRead: ${isRead(method)}, request: ${request}, reply: ${reply} },`;
  });
  return [
    `/** ${service.comment?.replaceAll(/\s+/g, " ") ?? fullName} */`,
    `export const ${service.name} = {`,
    `  name: "${fullName}",`,
    `  area: "${area}",`,
    "  methods: {",
    ...methods,
    "  },",
    "} as const satisfies ServiceDescriptor;",
    "",
  ].join("\n");
}

/** Every method states its idempotency level: clients of the bus repeat what reads soon, and what its service knows again by its id late. */
function isRead(method: protobuf.Method): boolean {
  const level: unknown = method.options?.["idempotency_level"];
  if (level === "NO_SIDE_EFFECTS") return true;
  if (level === "IDEMPOTENT") return false;
  const choices = "NO_SIDE_EFFECTS (it reads) or IDEMPOTENT (its service knows a repeated request by its id)";
  throw new Error(`${method.fullName}: option idempotency_level must be ${choices}, and is ${String(level)}`);
}
