import { sessionSuite } from "./session-suite.ts";

sessionSuite("gateway");
