/**
 * What docker-compose.yml needs before anything starts, made once and kept in its volumes: a key for each user of NATS, the configuration of the server that
 * knows them, its certificate, and a key for the results of leases. Each service is given its own key and no other; the command line finds its own in a folder of
 * the clone. Runs as root, to give each file to whoever reads it.
 */
import { readEnv } from "@muster/service";
import { prepare } from "./prepare.ts";

const config = readEnv(process.env, (read) => ({
  natsPort: read.integer("SETUP_NATS_PORT", { fallback: 4222, min: 1, max: 65_535 }),
  kubernetesPort: read.integer("SETUP_KUBERNETES_PORT", { fallback: 26_443, min: 1, max: 65_535 }),
  kubeconfigs: read.optional("SETUP_KUBECONFIGS"),
}));

// The user that all images run as.
const service = { uid: 1000, gid: 1000 };
const steps = await prepare({ root: "/setup", service, ...config, nowMs: Date.now() });
for (const step of steps) console.log(`${step.do}: ${step.because}`);
if (steps.length > 0)
  console.log("a NATS that runs has the certificate from before until: docker compose kill --signal SIGHUP nats");
