"""gdb's view of Quire: addresses, frame numbers, page-table entries, and the kernel's tables.

Loaded by the command that `./run.sh --gdb` prints. Commands:

    pte VALUE        what the bits of one page-table entry mean
    walk ADDRESS     the entries on the way to a virtual address, from the tables in use, and the physical address,
                     which is $physical afterwards

Values of type VirtAddr, PhysAddr, Pfn, Vpn and Order print as what they are.
"""

import gdb

DIRECT_MAP = 0xFFFF_8000_0000_0000
LEVELS = ("PGD", "PUD", "PMD", "PTE")
PAGE_SHIFT = 12


def is_arm():
    return "aarch64" in gdb.selected_inferior().architecture().name()


class Wrapped:
    """A tuple struct around one integer: prints as `Name(0x...)`, frame numbers with the address they stand for."""

    def __init__(self, value, name):
        self.value, self.name = value, name

    def to_string(self):
        inner = int(self.value[self.value.type.fields()[0].name])
        if self.name in ("Pfn", "Vpn"):
            return f"{self.name}({inner:#x} = page at {inner << PAGE_SHIFT:#x})"
        if self.name == "Order":
            return f"Order({inner} = {4 << inner} kB)"
        return f"{self.name}({inner:#x})"


def printer(value):
    name = (value.type.strip_typedefs().name or "").rsplit("::", 1)[-1]
    if name in ("VirtAddr", "PhysAddr", "Pfn", "Vpn", "Order"):
        return Wrapped(value, name)
    return None


def bits(entry, names):
    return " ".join(name for bit, name in names if entry >> bit & 1)


X86_BITS = (
    (0, "present"), (1, "write"), (2, "user"), (3, "write-through"), (4, "uncached"), (5, "accessed"),
    (6, "dirty"), (7, "large/pat"), (8, "global"), (9, "sw9"), (10, "sw10"), (11, "sw11"), (63, "nx"),
)
ARM_BITS = (
    (0, "valid"), (1, "table/page"), (5, "ns"), (6, "user"), (7, "read-only"), (10, "af"), (11, "ng"),
    (51, "dbm"), (52, "contiguous"), (53, "pxn"), (54, "uxn"), (55, "sw55"), (56, "sw56"), (57, "sw57"), (58, "sw58"),
)


def frame(entry):
    """The physical address in an entry."""
    return entry & (0x0000_FFFF_FFFF_F000 if is_arm() else 0x000F_FFFF_FFFF_F000)


def describe(entry):
    """One entry in words. Formats: Intel SDM volume 3, 4.5; Arm ARM, D8.3."""
    if is_arm():
        if not entry & 1:
            return "absent" if entry == 0 else f"absent, software value {entry:#x}"
        extra = f" attr{entry >> 2 & 7} sh{entry >> 8 & 3}"
        return f"-> {frame(entry):#x}  {bits(entry, ARM_BITS)}{extra}"
    if not entry & 1:
        return "absent" if entry == 0 else f"absent, software value {entry:#x}"
    return f"-> {frame(entry):#x}  {bits(entry, X86_BITS)}"


class Pte(gdb.Command):
    """pte VALUE: what the bits of a page-table entry mean."""

    def __init__(self):
        super().__init__("pte", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        entry = int(gdb.parse_and_eval(argument)) & (1 << 64) - 1
        print(f"{entry:#018x}  {describe(entry)}")


def root(address):
    """The physical address of the table that translates `address`. QEMU shows the registers on both machines."""
    if is_arm():
        name = "TTBR1_EL1" if address >> 63 else "TTBR0_EL1"
        return frame(int(gdb.parse_and_eval(f"${name}")))
    return frame(int(gdb.parse_and_eval("$cr3")))


def read_physical(address):
    """Eight bytes of physical memory, by QEMU's monitor: works before the direct map is there."""
    text = gdb.execute(f"monitor xp /1gx {address:#x}", to_string=True)
    return int(text.split(":")[1].strip(), 16)


class Walk(gdb.Command):
    """walk ADDRESS: the page-table entries on the way to a virtual address."""

    def __init__(self):
        super().__init__("walk", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        address = int(gdb.parse_and_eval(argument)) & (1 << 64) - 1
        table = root(address)
        for depth, name in enumerate(LEVELS):
            index = address >> (39 - 9 * depth) & 511
            entry = read_physical(table + 8 * index)
            print(f"{name}[{index:3}] at {table + 8 * index:#x}: {entry:#018x}  {describe(entry)}")
            if not entry & 1:
                return
            leaf = name != "PGD" and (not entry & 2 if is_arm() else entry & 0x80)
            if name == "PTE" or leaf:
                inside = address & (1 << 39 - 9 * depth) - 1
                # Below the size of what is mapped, large entries of x86_64 have a PAT bit.
                physical = frame(entry) & -(1 << 39 - 9 * depth) | inside
                gdb.set_convenience_variable("physical", physical)
                print(f"physical {physical:#x}")
                return
            table = frame(entry)


gdb.pretty_printers.append(printer)
Pte()
Walk()
