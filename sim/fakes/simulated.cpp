// Tools tell the simulator's libraries from real ones by this symbol.
extern "C" {
__attribute__((visibility("default"))) int rung_simulated = 1;
}
