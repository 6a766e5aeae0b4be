/* Names of functions by address, also of those that are not exported: read
 * from the symbol table of the file that a module was loaded from. The tracer
 * and the traced process have the same modules at the same addresses, since
 * the one is forked from the other. */
#include "shared.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct module {
    uintptr_t base, low, high; /* of its code */
    char path[512];
    const Elf64_Sym *symbols;
    size_t count;
    const char *names;
};

static struct module modules[64];
static unsigned module_count;

static void read_symbols(struct module *module)
{
    struct stat facts;
    int file = open(module->path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &facts) != 0)
        return;
    const char *image = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (image == MAP_FAILED)
        return;
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
    for (unsigned wanted = 0; wanted < 2 && module->symbols == NULL; wanted++)
        for (unsigned i = 0; i < header->e_shnum; i++)
            if (sections[i].sh_type == (wanted == 0 ? SHT_SYMTAB : SHT_DYNSYM)) {
                module->symbols = (const Elf64_Sym *)(image + sections[i].sh_offset);
                module->count = sections[i].sh_size / sizeof(Elf64_Sym);
                module->names = image + sections[sections[i].sh_link].sh_offset;
            }
}

static int add_module(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (module_count == sizeof modules / sizeof modules[0])
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0)
            continue;
        struct module *module = &modules[module_count++];
        module->base = info->dlpi_addr;
        module->low = info->dlpi_addr + segment->p_vaddr;
        module->high = module->low + segment->p_memsz;
        snprintf(module->path, sizeof module->path, "%s", info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe");
        read_symbols(module);
        return 0;
    }
    return 0;
}

void name_of(uintptr_t address, char *text, size_t size)
{
    if (module_count == 0)
        dl_iterate_phdr(add_module, NULL);
    snprintf(text, size, "0x%lx", (unsigned long)address);
    for (unsigned m = 0; m < module_count; m++) {
        const struct module *module = &modules[m];
        if (address < module->low || address >= module->high)
            continue;
        const char *file = strrchr(module->path, '/');
        snprintf(text, size, "%s+0x%lx", file != NULL ? file + 1 : module->path, (unsigned long)(address - module->base));
        uintptr_t at = address - module->base, best = 0;
        for (size_t i = 0; i < module->count; i++) {
            const Elf64_Sym *symbol = &module->symbols[i];
            if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_value > at || symbol->st_value < best)
                continue;
            const char *name = module->names + symbol->st_name;
            /* Of several names the shortest: functions with the same code share it. */
            if (at - symbol->st_value >= (symbol->st_size != 0 ? symbol->st_size : 1)
                || (symbol->st_value == best && strlen(name) >= strlen(text)))
                continue;
            best = symbol->st_value;
            snprintf(text, size, "%s", name);
        }
    }
}
