/**
 * Creates the files that docker-compose.yml needs before its services start, once, in its volumes: a key for each NATS user, the configuration of the server
 * with these users, its certificate, and a key for the results of leases. Each service gets only its own key; the command line finds its key in a folder of
 * the clone. Runs as root, so that each file can belong to its reader.
 */
import { readEnv } from "@muster/service";
import { prepare } from "./prepare.ts";

const config = readEnv(process.env, (read) => ({
  natsPort: read.integer("SETUP_NATS_PORT", { fallback: 4222, min: 1, max: 65_535 }),
  kubernetesPort: read.integer("SETUP_KUBERNETES_PORT", { fallback: 26_443, min: 1, max: 65_535 }),
  kubeconfigs: read.optional("SETUP_KUBECONFIGS"),
}));

// All images run as this user.
const service = { uid: 1000, gid: 1000 };
const steps = await prepare({ root: "/setup", service, ...config, nowMs: Date.now() });
for (const step of steps) console.log(`${step.kind}: ${step.because}`);
if (steps.length > 0)
  console.log("a running NATS keeps the old certificate until: docker compose kill --signal SIGHUP nats");
