import { serviceNames } from "@muster/proto";

export const SERVICES = serviceNames;

export type ServiceName = (typeof SERVICES)[number];

/** They may change more than the namespace of the work, nodes or namespaces of the whole cluster: the chart installs each only where its values ask for it. */
export const OPT_IN: readonly ServiceName[] = ["node-scaler", "provision-engine"];

/** Without whom nothing lacks where Muster makes no machines. */
export const OPTIONAL: ServiceName = "node-scaler";

/** What is there everywhere. */
export const STANDARD: readonly ServiceName[] = SERVICES.filter((name) => name !== OPTIONAL);
