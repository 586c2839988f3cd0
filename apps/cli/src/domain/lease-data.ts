import type { CheckedSchema } from "./check-schema.ts";
import type { LeaseType } from "./lease-document.ts";

type Described = CheckedSchema & {
  readonly description?: string;
  readonly pattern?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Described>>;
  readonly items?: Described;
};

export const LEASE_MACHINES_MAX = 1000;
const LEASE_ID = "^\\d{1,20}-\\d{1,20}$";
const LABEL_VALUE = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
const TEXT_MAX = 4096;
const GIB_MAX = 1_048_576;
const MIB_MAX = 1_073_741_824;
const SIZES = 18;

/** What the data of each type are, for editors, and so that a slip is told where it stands before anything is signed. The engine has the last word. */
export const LEASE_DATA: Readonly<Record<LeaseType, Described>> = {
  network: closed(["name"], {
    name: networkName("Name of the network, among those of its user."),
    open_ports: {
      ...list(port(), 100),
      description: "Ports that everybody reaches; the others only who is in the network.",
    },
  }),
  volume: closed(["size", "type"], {
    size: gib(),
    type: disk(),
    network: networkName("The network of the same user that it can be mounted in."),
  }),
  container: closed(["image", "capacity"], {
    image: { type: "string", minLength: 1, maxLength: 500 },
    entrypoint: list(text(), 500),
    args: list(text(), 500),
    env: texts("Variables of its environment."),
    secret_env: texts("The same, kept as secrets of Kubernetes."),
    ports: { ...list(port(), 100), description: "Ports that its network reaches." },
    network: networkName("The network of the same user that it is in."),
    mounts: list(
      closed(["volume_id", "mountpoint"], {
        volume_id: { type: "string", pattern: LEASE_ID, description: "Id of a lease of a volume of the same user." },
        mountpoint: { ...text(), pattern: "^/[^:]*$" },
      }),
      50,
    ),
    capacity: closed(["cpu", "memory"], {
      cpu: { ...integer(1, 1024), description: "Processors." },
      memory: { ...integer(1024, 67_108_864), description: "MiB." },
      disk_type: { ...disk(), default: "ssd" },
      disk_size: {
        ...integer(0, MIB_MAX),
        default: 0,
        description: "MiB of its root file system; 0: as much as its node lets it have.",
      },
    }),
  }),
  zdb: closed(["size", "mode", "disk_type"], {
    size: gib(),
    mode: { enum: ["user", "seq"] },
    disk_type: disk(),
    password: { ...text(), default: "" },
    public: { type: "boolean", default: false, description: "Whether who has no password may read." },
    network: networkName("The network of the same user that it is in."),
  }),
  kubernetes: closed(["size"], {
    size: { ...integer(1, SIZES), description: "Size of the slice, by the table in docs/leases.md." },
  }),
  machine: closed(["pool", "machines"], {
    pool: {
      type: "string",
      minLength: 1,
      pattern: LABEL_VALUE,
      maxLength: 63,
      description: "The pool that they come from.",
    },
    machines: { ...integer(1, LEASE_MACHINES_MAX), description: "So many, all at once." },
  }),
  debug: { description: "Whatever its data are, they are its result." },
};

function closed(required: readonly string[], properties: Readonly<Record<string, Described>>): Described {
  return { type: "object", additionalProperties: false, required, properties };
}

function list(items: Described, maxItems: number): Described {
  return { type: "array", items, maxItems };
}

function integer(minimum: number, maximum: number): Described {
  return { type: "integer", minimum, maximum };
}

function text(): Described {
  return { type: "string", maxLength: TEXT_MAX };
}

function texts(description: string): Described {
  return { type: "object", additionalProperties: text(), description };
}

function port(): Described {
  return integer(1, 65_535);
}

function gib(): Described {
  return { ...integer(1, GIB_MAX), description: "GiB." };
}

function disk(): Described {
  return { enum: ["ssd", "hdd"] };
}

function networkName(description: string): Described {
  return { type: "string", minLength: 1, maxLength: 63, description };
}
